"""The block of a step of the timeline: one fault on one target, with its time, duration and options.

In the file the options are keys of the step; fault_kinds.py says which fault has which. Not here: checks
against the rest of the file (checks/).
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)

from kaput.scenario.block import Block, Found, inapplicable_keys
from kaput.scenario.events import Moment
from kaput.scenario.fault_kinds import (
    KINDS,
    MOVE_LEADER,
    About,
    FaultKind,
    Options,
    check_broker,
    defaults_of,
    faults_on,
    meant_by,
)
from kaput.scenario.nearest import hint
from kaput.scenario.targets import CLUSTER, TOPIC, Target, parse_target
from kaput.scenario.values import DurationMs, check_at

LENIENT = {"lenient": True}  # validation context of recorded scenarios: accepts faults of other versions
_COMMANDS = ("inject", "heal", "prove")


def _check_fault(value: str, info: ValidationInfo) -> str:
    if value not in KINDS and not (info.context or {}).get("lenient"):
        raise ValueError(f"{value!r} is not a fault; {hint(meant_by(value), KINDS)}")
    return value


class StepKeys(Block):
    """One action on one target, from a moment on, for a time (without `for`: until all has been sent)."""

    at: Annotated[Moment | str, BeforeValidator(check_at)]
    """When: a time after the warm-up (10s), a share of the load (30%), {message: N}, or {event: NAME}."""
    fault: Annotated[
        str, AfterValidator(_check_fault), WithJsonSchema({"type": "string", "enum": list(KINDS)})
    ]
    """The action."""
    target: Target = parse_target("any")
    """What it hits; leaders, followers and coordinators are looked up when the fault is injected."""
    for_: DurationMs | None = Field(default=None, alias="for")
    """How long; without it the fault is healed when everything has been sent."""
    optional: bool | None = None
    """Whether a step that met nothing (its event or the requests that it is about never came) counts as one
    that was not there; otherwise the run is inconclusive. Searches write it into their experiments."""

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, data: Any) -> Any:
        return with_defaults(data)

    @field_validator("to", mode="before", check_fields=False)
    @classmethod
    def _number_of_a_broker(cls, value: Any, info: ValidationInfo) -> Any:
        """Of move-leader it is no place to go to in a log, as it is of others."""
        if info.data.get("fault") == MOVE_LEADER and value is not None:
            check_broker(value)
        return value

    @classmethod
    def texts(cls) -> dict[str, str]:
        """What each field is, also those that are options of faults."""
        options = [kind.options.texts() for kind in reversed(KINDS.values())]
        return {name: text for texts in (*options, super().texts()) for name, text in texts.items()}

    @property
    def kind(self) -> FaultKind:
        """What is known of its fault; of a recorded one of another version, nothing but its name."""
        return KINDS.get(self.fault) or FaultKind(self.fault, ())

    @property
    def options(self) -> Options:
        kind = self.kind.options
        given = {name: getattr(self, name) for name in kind.model_fields}
        return kind.model_construct(**{name: value for name, value in given.items() if value is not None})

    def rules(self) -> Found:
        taken = {name: list(defaults_of(name)) for name in KINDS}
        for path, text in inapplicable_keys(self, self.fault, taken):
            key = path[0]
            yield path, f"{self.fault} takes no {key}; fault: command does" if key in _COMMANDS else text
        yield from self.options.mistakes(self.target)
        yield from self._permanence()

    def _permanence(self) -> Found:
        """Mistakes: topics and the cluster itself have their own faults, whose changes stay."""
        hits = self.kind.hits
        if CLUSTER in hits:
            if self.target.hits != CLUSTER:
                yield ("target",), f"{self.fault} changes the cluster as a whole; write target: cluster"
        elif self.target.hits == CLUSTER:
            known = ", ".join(sorted(faults_on(CLUSTER)))
            yield ("target",), f"{self.fault} does not hit the cluster as a whole; {known} do"
        elif self.target.hits == TOPIC and TOPIC not in hits:
            yield (("target",), f"{self.fault} does not hit topics; {', '.join(sorted(faults_on(TOPIC)))} do")
        if self.for_ is not None and self.kind.permanent:
            yield ("for",), f"the change made by {self.fault} is permanent; leave this out"


def with_defaults(step: Any) -> Any:
    """A step with defaults for missing or null options; anything that is no step unchanged."""
    if not isinstance(step, dict):
        return step
    fault = step.get("fault")
    defaults = defaults_of(fault) if isinstance(fault, str) else {}
    return {**step, **{key: value for key, value in defaults.items() if step.get(key) is None}}


def _option_keys() -> dict[str, Any]:
    """The options of all faults as optional keys; an option of several faults is the same key."""
    keys: dict[str, Any] = {}
    for kind in KINDS.values():
        hints = get_type_hints(kind.options, include_extras=True)
        for name, field in kind.options.model_fields.items():
            if name in keys:
                continue
            annotation = _without_none(hints[name])
            about = [each.text for each in getattr(annotation, "__metadata__", ()) if isinstance(each, About)]
            text = next(iter(about), None)
            keys[name] = (annotation | None, Field(default=None, alias=field.alias, description=text))
    return keys


def _without_none(hint: Any) -> Any:
    """`X` for `X | None`."""
    args = get_args(hint) if isinstance(hint, UnionType) or get_origin(hint) is Union else ()
    return next((arg for arg in args if arg is not NoneType), hint) if NoneType in args else hint


if TYPE_CHECKING:
    FaultStep = StepKeys
else:
    FaultStep = create_model("FaultStep", __base__=StepKeys, __doc__=StepKeys.__doc__, **_option_keys())
