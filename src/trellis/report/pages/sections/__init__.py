"""Parts of pages that say one thing each: scores, training, states, errors, times."""
