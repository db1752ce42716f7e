// Command etcd is the etcd server as its own module publishes it; this file exists only because
// go.etcd.io/etcd/v3, which holds the usual main, cannot be a dependency of another module.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
