"""Flask's side: routes, pages, errors as answers."""
