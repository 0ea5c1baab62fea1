"""What happens before the first round: images are dealt out, encoders are trained."""
