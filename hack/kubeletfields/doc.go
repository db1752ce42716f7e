// Command kubeletfields writes pkg/kubelet/fields_gen.go: which fields of KubeletConfiguration (kubelet.config.k8s.io/v1beta1) each
// published version of k8s.io/kubelet knows. It reads types.go of each module with go/parser; the modules are fetched by
// `go mod download`, so run it with network access after a new Kubernetes minor version:
//
//	go run ./hack/kubeletfields > pkg/kubelet/fields_gen.go
package main
