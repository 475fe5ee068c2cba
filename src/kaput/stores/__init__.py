"""Real servers for kaput.keep's stores: OpenSearch, Elasticsearch, and FerretDB for MongoDB's protocol."""
