"""Flask's side: the application, routes, pages and error responses."""
