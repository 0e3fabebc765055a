"""The Grafana dashboards as code; `generate` writes the JSON files beside this one."""
