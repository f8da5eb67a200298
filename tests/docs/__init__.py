"""README, docs/ and deploy/ say what is so, and their examples run."""
