"""Reading attnscope results, their statistics, and the report drawn from them."""
