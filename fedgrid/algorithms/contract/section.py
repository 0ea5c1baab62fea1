"""The base class of every part of a configuration: frozen, strict about keys, no boolean for a number."""

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
"""A count of at least 1; neither `3.0` nor `'3'` is accepted."""


class Condition(NamedTuple):
    """A condition under which a setting has an effect."""

    holds: Callable[[Any], bool]
    """Checks whether a section, its argument, meets the condition."""
    words: str
    """The condition as messages name it, such as `server_optimizer adam or yogi`."""


class SectionType(ModelMetaclass):
    """Metaclass that explains in one line why a section cannot be built.

    `model_validate` is not affected and raises pydantic's own error.
    """

    explain: ClassVar[Callable[[ValidationError, Any], Exception]] = lambda error, _: error
    """Function from pydantic's error and the class to the exception that is raised instead. The engine sets
    it, because its messages name keys as a user writes them."""

    def __call__(cls, *args: Any, **values: Any) -> Any:
        """Build a section from values by key.

        Raises:
            ValueError: there is no such key, or a value is impossible.
            TypeError: a value is given without its key.
        """
        # pydantic's own error would name its constructor.
        if args:
            raise TypeError(f"{cls.__name__} takes values by key; those of a dict: {cls.__name__}(**values)")
        try:
            return super().__call__(**values)
        except ValidationError as error:
            raise SectionType.explain(error, cls) from error


class Section(BaseModel, metaclass=SectionType):
    """A part of a configuration: a frozen pydantic model that refuses keys that it does not have."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    omitted_defaults: ClassVar[tuple[str, ...]] = ()
    """Keys that are written only if they differ from their defaults, in addition to those of the base
    classes.

    They are rare ones and those added since 0.1.0, so that a run that does not set them keeps its id.
    """

    acts_with: ClassVar[Mapping[str, Condition]] = {}
    """Key -> the condition under which it has an effect, in addition to those of the base classes. Other keys
    always have one.

    A new run may not set a key without effect (`runtime.configuration.idle_settings`); a stored run may
    have it.
    """

    @model_serializer(mode="wrap")
    def _without_omitted_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Serialise the section without keys of `omitted_defaults` that are at their defaults."""
        values: dict[str, Any] = handler(self)
        for name, default in _find_omitted_defaults(type(self)).items():
            # Identity is compared first because it is fast, and thousands of runs are written at once.
            # Nearly always the default itself: thousands of runs are written at once.
            if (value := getattr(self, name)) is default or value == default:
                values.pop(name, None)
        return values

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_booleans(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse true and false for a number: pydantic would read them as 1 and 0."""
        settings = handler(given)
        problem = PydanticCustomError("boolean", "input should be a number, not true or false")
        # After validation: by then a string or a boolean has become the field's own type, which says whether
        # a number was meant.
        findings = [
            InitErrorDetails(type=problem, loc=(key,), input=value)
            for key, value in (given.items() if isinstance(given, Mapping) else ())
            if isinstance(value, bool) and type(getattr(settings, key, value)) in (int, float)
        ]
        if findings:
            raise ValidationError.from_exception_data(cls.__name__, findings)
        return settings


def build_name_validator(
    kind: str, classes: Mapping[str, type[Section]], example: str = ""
) -> BeforeValidator:
    """Build the validator of a field that holds a section chosen by its `name`.

    It accepts a section, a name, or a mapping with a `name`; None too, if there is an example.

    Args:
        kind: what messages call such a section, as in `unknown clusterer 'x'`.
        classes: name -> class; it may gain plugins' classes later.
        example: a mapping that messages show; empty: None is refused.
    """

    def parse_section(given: object) -> object:
        # None is allowed where messages have an example, that is where the field may be empty.
        if isinstance(given, Section) or (given is None and example):
            return given
        name = given.get("name") if isinstance(given, Mapping) else given
        if not isinstance(name, str) or name not in classes:
            hint = f", as in {example}" if example else ""
            raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(classes)}{hint}")
        return classes[name].model_validate(dict(given) if isinstance(given, Mapping) else {"name": name})

    return BeforeValidator(parse_section)


def find_default_name(section: type[BaseModel]) -> str:
    """Find the name of a clusterer and its like: the default of its field `name`, empty without one."""
    field = section.model_fields.get("name")
    return field.default if field is not None and isinstance(field.default, str) else ""


@cache
def _find_omitted_defaults(section: type[Section]) -> dict[str, Any]:
    """Collect the defaults that a section omits; they are not copied, as nothing changes them."""
    # Each class lists its own keys only.
    names = {name for base in section.__mro__ for name in vars(base).get("omitted_defaults", ())}
    return {name: field.get_default() for name, field in section.model_fields.items() if name in names}


@dataclass(frozen=True)
class FirstRound:
    """A mark on a setting that names a round: with the value n it acts in round n + `later` at the earliest.

    A setting of an algorithm is marked as `round: Annotated[int, FirstRound()] = 21`. In a run with fewer
    rounds, where the setting has no effect, the log then warns. The value None stands for never.

    Args:
        later: rounds between the one that the setting names and the first one in which it acts.

    Example:
        >>> from typing import Annotated
        >>> import fedgrid
        >>> class LateSettings(fedgrid.FedOptSettings):
        ...     round: Annotated[int, fedgrid.FirstRound()] = 21
        >>> LateSettings.model_fields["round"].metadata
        [FirstRound(later=0)]
    """

    later: int = 0
    """Rounds between the one that the setting names and the first one in which it acts."""


def find_first_rounds(settings: type[BaseModel], values: Mapping[str, Any]) -> dict[str, int]:
    """Find the first round, from 1, in which each marked setting acts with its value.

    A setting that `values` lacks, or that is None, is at a default that never acts; it is left out.
    """
    marks = {
        name: mark
        for name, field in settings.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, FirstRound) and values.get(name) is not None
    }
    return {name: values[name] + mark.later for name, mark in marks.items()}


def find_idle_keys(section: Section, usual: Section) -> dict[str, str]:
    """Find the keys that differ from `usual` but have no effect, with the condition that each would need."""
    kind = type(section)
    idle = {}
    for name in kind.model_fields:
        if getattr(section, name) == getattr(usual, name):
            continue
        # Each class may add a condition of its own; all of them must hold.
        for base in kind.__mro__:
            condition = vars(base).get("acts_with", {}).get(name)
            if condition is not None and not condition.holds(section):
                idle[name] = condition.words
    return idle
