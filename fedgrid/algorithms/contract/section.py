"""What every part of a configuration is: frozen, strict about its keys, and never a boolean for a number."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)  # It has no public name.

PositiveInt = Annotated[int, Field(gt=0, strict=True)]
"""A count: neither `3.0` nor `'3'` is one."""


class Condition(NamedTuple):
    """What a setting needs of its section so that it acts."""

    holds: Callable[[Any], bool]
    """Of the section."""
    words: str
    """The same for messages, as in `server_optimizer adam or yogi`."""


class SectionType(ModelMetaclass):
    """Explains in one line why a section cannot be made; `model_validate` raises pydantic's own error."""

    explain: ClassVar[Callable[[ValidationError, Any], Exception]] = lambda error, _: error
    """Returns what is raised in place of pydantic's error. The engine sets it."""

    def __call__(cls, *args: Any, **values: Any) -> Any:
        """Return a section of these values.

        Raises:
            ValueError: there is no such key, or a value is impossible.
            TypeError: a value has no key.
        """
        if args:
            raise TypeError(f"{cls.__name__} takes values by key; those of a dict: {cls.__name__}(**values)")
        try:
            return super().__call__(**values)
        except ValidationError as error:
            raise SectionType.explain(error, cls) from error


class Section(BaseModel, metaclass=SectionType):
    """A part of the configuration: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    omitted_defaults: ClassVar[tuple[str, ...]] = ()
    """Keys that are written down only if they are not at their defaults, beside those of the base classes.

    They are the rare ones, and those added from 0.1.0 on: a run that does not name them keeps its id."""

    acts_with: ClassVar[Mapping[str, Condition]] = {}
    """Key -> with what it acts, beside what the base classes say of it; of a key that is not here: always.

    New runs may not set a key that cannot act (`runtime.configuration.idle_settings`); stored ones may have
    it."""

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


def by_name(kind: str, classes: Mapping[str, type[Section]], example: str = "") -> BeforeValidator:
    """Return what lets a settings field hold a section of a name, or of a mapping with a `name`; None stays.

    `kind` is what messages call such a section, `example` a mapping.
    """

    def parse(given: object) -> object:
        if isinstance(given, Section) or (given is None and example):
            return given
        name = given.get("name") if isinstance(given, Mapping) else given
        if not isinstance(name, str) or name not in classes:
            hint = f", as in {example}" if example else ""
            raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(classes)}{hint}")
        return classes[name].model_validate(dict(given) if isinstance(given, Mapping) else {"name": name})

    return BeforeValidator(parse)


@cache
def _defaults_to_omit(section: type[Section]) -> dict[str, Any]:
    """Return the defaults that a section omits; no copies, as nothing changes them."""
    names = {name for base in section.__mro__ for name in vars(base).get("omitted_defaults", ())}
    return {name: field.get_default() for name, field in section.model_fields.items() if name in names}


@dataclass(frozen=True)
class FirstRound:
    """Marks a setting: with the value n it acts in round n + `later` at the earliest.

    As in `round: Annotated[PositiveInt, FirstRound()] = 21`. None stands for never.
    """

    later: int = 0


def first_rounds(settings: type[BaseModel], values: Mapping[str, Any]) -> dict[str, int]:
    """Return marked setting -> the first round, from 1, in which it acts with its value.

    One that `values` lacks, or that is None, is at a default that never acts.
    """
    marks = {
        name: mark
        for name, field in settings.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, FirstRound) and values.get(name) is not None
    }
    return {name: values[name] + mark.later for name, mark in marks.items()}


def idle_keys(section: Section, usual: Section) -> dict[str, str]:
    """Return key -> with what it would act, for keys that cannot act and are not as in `usual`."""
    kind, found = type(section), {}
    for name in kind.model_fields:
        if getattr(section, name) == getattr(usual, name):
            continue
        for base in kind.__mro__:
            condition = vars(base).get("acts_with", {}).get(name)
            if condition is not None and not condition.holds(section):
                found[name] = condition.words
    return found
