"""What is kept and shown: scores, MLflow, figures."""
