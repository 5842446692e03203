"""Documents as pages for a browser: pure functions of the JSON documents, standard library only, nothing fetched."""
