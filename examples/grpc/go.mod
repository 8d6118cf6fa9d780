module github.com/goroce/goroce/examples/grpc

go 1.26.0

require (
	github.com/goroce/goroce v0.0.0
	google.golang.org/grpc v1.76.0
)

require (
	github.com/cilium/ebpf v0.22.0 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250804133106-a7a43d27e69b // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/goroce/goroce => ../..
