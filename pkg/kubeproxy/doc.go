// Package kubeproxy renders what kube-proxy needs on Windows, by its version: KubeProxyConfiguration v1alpha1 for mode kernelspace, the command
// line, and a kubeconfig whose token is read from a file again and again. It also says where direct server return works.
//
// All of it is pure. That a kube-proxy accepts the configuration is tested against the project's own types with strict decoding; that HNS does
// what it asks for is not. The package imports the standard library, pkg/kubelet for versions, and sigs.k8s.io/yaml.
package kubeproxy
