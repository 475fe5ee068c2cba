"""Charts in Vega-Lite, made with Altair."""
