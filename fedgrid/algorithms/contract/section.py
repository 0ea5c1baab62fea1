"""What every part of a configuration is: frozen, strict about its keys, and never a boolean for a number."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

PositiveInt = Annotated[int, Field(gt=0, strict=True)]
"""A count: neither `3.0` nor `'3'` is one."""


class Section(BaseModel):
    """A part of the configuration: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    omitted_defaults: ClassVar[tuple[str, ...]] = ()
    """Keys that are written down only if they are not at their defaults, beside those of the base classes.

    They are the rare ones, and those added from 0.1.0 on: a run that does not name them keeps its id."""

    @model_serializer(mode="wrap")
    def _without_omitted_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        for name, default in _defaults_to_omit(type(self)).items():
            # Nearly always the default itself: thousands of runs are written at once.
            if (value := getattr(self, name)) is default or value == default:
                values.pop(name, None)
        return values

    @model_validator(mode="wrap")
    @classmethod
    def _booleans_are_no_numbers(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        settings = handler(given)
        problem = PydanticCustomError("boolean", "input should be a number, not true or false")
        findings = [
            InitErrorDetails(type=problem, loc=(key,), input=value)
            for key, value in (given.items() if isinstance(given, Mapping) else ())
            if isinstance(value, bool) and type(getattr(settings, key, value)) in (int, float)
        ]
        if findings:
            raise ValidationError.from_exception_data(cls.__name__, findings)
        return settings


def named(kind: str, given: object, classes: Mapping[str, type[Section]], example: str = "") -> object:
    """Return the section that a name, or a mapping with a `name`, describes; one that is given as it is.

    Args:
        kind: what messages call such a section.
        given: from a file or a command line.
        classes: by name.
        example: of a mapping, for the message.

    Raises:
        ValueError: without a name, or with an unknown one.
        pydantic.ValidationError: settings that this section does not have.
    """
    if isinstance(given, Section):
        return given
    name = given.get("name") if isinstance(given, Mapping) else given
    if not isinstance(name, str) or name not in classes:
        hint = f", as in {example}" if example else ""
        raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(classes)}{hint}")
    return classes[name].model_validate(dict(given) if isinstance(given, Mapping) else {"name": name})


@cache
def _defaults_to_omit(section: type[Section]) -> dict[str, Any]:
    """Return the defaults that a section omits; no copies, as nothing changes them."""
    names = {name for base in section.__mro__ for name in vars(base).get("omitted_defaults", ())}
    return {name: field.get_default() for name, field in section.model_fields.items() if name in names}
