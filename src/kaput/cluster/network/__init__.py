"""Where nodes live: `loopback` on any system, `namespaces` on Linux. One interface, one file each."""
