// Package bed puts the whole product on a table: a real control plane, the Machine API's own controllers, simulated machines, and the
// operator as a process of its own with its own service account and the rights that config/rbac gives it. The demo and the
// end-to-end tests stand on it.
//
// It may import everything below test, and nothing of the product but what a user of it would see: API types, the packed payload and the
// manifests in config. The operator itself runs as a program.
package bed
