"""Alert rules over signals, and who is notified.

    rules file -> AlertRules -> Engine <- samples and a time
    (YAML)        (rules.py)      |
                                  v
                             transitions -> Notifiers (notifiers.py) -> channels (channels.py)

rules.py        what a rule is, and a file of them; builtin.yaml has kaput's own
engine.py       what rules observe, and the states of alerts. No clock, no I/O
prometheus.py   the same rules for Prometheus and Alertmanager
scoring/        the same rules over recorded runs
"""
