"""How a proxy learns which keys are managed: it hears of all, or looks up what clients name."""
