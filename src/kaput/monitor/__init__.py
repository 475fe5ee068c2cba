"""A living cluster observed: signals, where they come from (sources), and who uses them: alerts, metrics.

signals.py    what can be observed: names, units, labels
sources       samples of signals: a cluster's state, a workload's progress, a recorded run
alerts/       rules over signals, and who is told
series.py     the newest value of each series; exposition.py, metrics_server.py: for Prometheus; otlp.py:
              for OpenTelemetry; grafana.py: a dashboard of all signals
"""
