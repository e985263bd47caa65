"""Text to token ids and back: tokenizers, chat templates, streaming decode, stop strings."""
