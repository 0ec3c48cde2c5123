"""The peers, through their public APIs and their own worker programs. They run in the peers' own environment."""
