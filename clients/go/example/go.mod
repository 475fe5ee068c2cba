module example

go 1.26.0

require (
	github.com/twmb/franz-go v1.22.3
	kaput.dev/lab v0.0.0
)

replace kaput.dev/lab => ../
