"""Part scores, and the linear scorer behind them."""
