"""What every part of a configuration is: frozen, strict about its keys, and never a boolean for a number."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError


class Section(BaseModel):
    """A part of the configuration: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _booleans_are_no_numbers(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        settings = handler(given)
        problem = PydanticCustomError("boolean", "input should be a number, not true or false")
        findings = [
            InitErrorDetails(type=problem, loc=path, input=value)
            for path, value in _booleans_taken_for_numbers(given, settings)
        ]
        if findings:
            raise ValidationError.from_exception_data(cls.__name__, findings)
        return settings


def _booleans_taken_for_numbers(given: object, taken: object) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield those in `given`, with their path: pydantic takes true for 1."""
    for key, value in given.items() if isinstance(given, Mapping) else ():
        kept = getattr(taken, key, None)
        if isinstance(value, bool) and isinstance(kept, int | float) and not isinstance(kept, bool):
            yield (key,), value
        for path, inner in _booleans_taken_for_numbers(value, kept):
            yield (key, *path), inner
