"""README, docs/ and deploy/ say what is true, and their examples run."""
