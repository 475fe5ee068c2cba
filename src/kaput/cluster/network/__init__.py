"""The networks of nodes: `loopback` on any system, `namespaces` on Linux. One interface, one file each."""
