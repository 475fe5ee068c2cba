"""Observes a live cluster: signals, their sources, and their consumers: alerts and metrics.

signals.py   what can be observed: names, units, labels
sources/     samples of signals: a cluster's state, polled
alerts/      rules over signals, and who is notified
series.py    the newest value of each series; metrics_server.py: for Prometheus; otlp.py: for OpenTelemetry;
             grafana.py: a dashboard of all signals
"""
