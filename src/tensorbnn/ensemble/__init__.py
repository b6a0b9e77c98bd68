"""What the sampled networks say."""
