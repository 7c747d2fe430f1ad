"""The lemma on Algorithm 1: context probabilities, with and without flooding."""
