"""What the evidence means: DataFrame -> DataFrame steps in PySpark, composed by pipeline.py."""
