// Package facts holds what is known about the cluster and about a node, as plain structs: the input of pkg/planner,
// beside the machine's own facts in pkg/plan. Package discover below it reads them from a cluster; nothing else does.
//
// The package imports the standard library only.
package facts
