module kaput.dev/lab

go 1.22
