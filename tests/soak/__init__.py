"""The soak: real parts under random faults for as long as you like, held against what producers were told."""
