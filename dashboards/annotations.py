"""What happened, as marks on every graph of a dashboard."""

from grafana_foundation_sdk.models.dashboard import AnnotationQuery

from dashboards.panels import DATA_SOURCE
from dashboards.queries import of_driver, restarts_of_sidecars


class Marks(AnnotationQuery):
    """Marks wherever a query gives anything; the SDK's class leaves out their texts."""

    def __init__(self, *, name: str, colour: str, expr: str, text: str) -> None:
        super().__init__(name=name, datasource=DATA_SOURCE, icon_color=colour, expr=expr)
        self._text = text

    def to_json(self) -> dict[str, object]:
        """Return it as Grafana's JSON has it."""
        return {**super().to_json(), "titleFormat": self.name, "textFormat": self._text}


_ACCEPTED_AT = of_driver("last_registration_timestamp_seconds", 'outcome="success"')

REGISTRATIONS = Marks(
    name="Registrations",
    colour="green",
    expr=f"changes({_ACCEPTED_AT}[$__rate_interval]) > 0",
    text="kubelet accepted {{driver_name}} on {{node}} {{instance}}",
)

RESTARTS_OF_DRIVERS = Marks(
    name="Restarts of drivers",
    colour="orange",
    expr=f"increase({of_driver('driver_restarts_total')}[$__rate_interval]) > 0",
    text="{{driver_name}} answered on another socket on {{node}} {{instance}}",
)

RESTARTS_OF_SIDECARS = Marks(
    name="Restarts of sidecars",
    colour="red",
    expr=f"({restarts_of_sidecars()}) > 0",
    text="the sidecar on {{node}} {{instance}} began anew",
)
