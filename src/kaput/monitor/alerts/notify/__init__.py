"""Who is told of alerts: lines, JSON lines, a webhook, Alertmanager. Each in a thread of its own (sender.py).

channel.py       what a channel is, and how sending can fail
queue.py         what is still to be sent; bounded
sender.py        a channel's thread: sends, tries again, ends within a bound
notifiers.py     all of them at once, and how they are named on a command line
"""
