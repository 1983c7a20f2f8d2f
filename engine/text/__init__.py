"""Text of a model: tokens, detokenizing, chat templates. Imports no torch and no weights."""
