// Command windows-machine-operator turns Windows machines into nodes of the cluster it runs in. main.go reads flags and wires
// packages together; it holds no logic. It may import anything of the product and nothing below test (hack/verify-imports.sh).
package main
