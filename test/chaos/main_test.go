package chaos

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// matrix counts what all tests of a run did.
var matrix = &tally{}

func TestMain(m *testing.M) {
	flag.Parse()
	// Machines mostly wait: the number of processors is no measure of how many may run.
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	log.SetLogger(logr.Discard())
	os.Exit(runMatrix(m))
}

func runMatrix(m *testing.M) int {
	code := m.Run()
	fmt.Println("crash matrix:")
	matrix.print(os.Stdout)
	return code
}
