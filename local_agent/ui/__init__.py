"""What the user sees and types; it knows events and errors and nothing of the agent behind them."""
