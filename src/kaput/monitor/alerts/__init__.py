"""Alert rules over signals, and who is notified.

    rules file -> Rules -> Engine <- samples and a time
    (YAML)        (rule.py)  |
                             v
                        transitions -> notifiers (notify/), each in its own thread

rule.py, rules.py   what a rule is, and a file of them; loading.py reads one, builtin.yaml has kaput's own
series.py           the samples of one label set, and what a rule derives from them
observing.py        what a rule observes at a given time: a value for each label set, or nothing
engine.py           states: pending, firing, resolved, inhibited. No clock, no I/O
prometheus.py       the same rules for Prometheus and Alertmanager
alerting.py         all of it together, for a monitor
scoring/            the same rules over recorded runs
"""
