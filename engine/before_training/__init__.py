"""What happens before the first round: encoders are trained, newcomers say what their data are."""
