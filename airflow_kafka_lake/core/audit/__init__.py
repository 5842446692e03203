"""Is anything lost, twice, visible too early, or not what the record says?"""
