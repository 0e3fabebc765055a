"""Where a registration may stand, as numbers that panels colour and name; the worst is highest."""

from dataclasses import dataclass

from dashboards.queries import DRIVER, SIDECAR, of_driver, sidecars_without_driver, silent_sidecars


@dataclass(frozen=True, slots=True)
class State:
    """One state of a row in a table or timeline."""

    code: int
    text: str
    colour: str


REGISTERED = State(0, "registered", "green")
STANDBY = State(1, "standby", "blue")
ANNOUNCED = State(2, "announced", "yellow")
WAITING = State(3, "waiting", "orange")
REJECTED = State(4, "rejected", "red")
NO_DRIVER = State(5, "no driver", "purple")
SILENT = State(6, "not reporting", "dark-red")

REGISTRATION_STATES = (REGISTERED, STANDBY, ANNOUNCED, WAITING, REJECTED)
"""Those that the sidecar tells by these names."""

STATES = (*REGISTRATION_STATES, NO_DRIVER, SILENT)


def registration_codes() -> str:
    """Give the state of each driver that has told its name."""
    return f"{_code(REGISTERED)} or {_other_codes()}"


def registration_codes_of(chosen: str) -> str:
    """Give the states of the drivers that a query chooses.

    Nearly all of a fleet is registered: these come last, and are narrowed down before anything else
    is done with them.
    """
    only = f"and on ({DRIVER}) {chosen}"
    registered = f"{REGISTERED.code} * group by ({DRIVER}) ({of_driver('registered')} {only})"
    return f"({_other_codes()}) {only} or {registered}"


def no_driver_codes() -> str:
    """Give each sidecar that has no driver."""
    return f"{NO_DRIVER.code} * group by ({SIDECAR}) ({sidecars_without_driver()})"


def silent_codes() -> str:
    """Give each sidecar that cannot be scraped."""
    return f"{SILENT.code} * group by ({SIDECAR}) ({silent_sidecars()})"


def _other_codes() -> str:
    return " or ".join(_code(state) for state in REGISTRATION_STATES if state is not REGISTERED)


def _code(state: State) -> str:
    series = of_driver("registration_state", f'state="{state.text}"')
    return f"{state.code} * group by ({DRIVER}) ({series} == 1)"
