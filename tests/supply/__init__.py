"""Parts of the program, and their known vulnerabilities: `make sbom`, `make audit`."""
