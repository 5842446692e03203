"""From policies and bounds to a plan: ranges cut by weight and packed into waves."""
