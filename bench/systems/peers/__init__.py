"""The peers, as their manuals would have them used. These modules run in the peers' own environment."""
