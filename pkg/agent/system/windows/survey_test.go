package windows

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/plan"
)

// table is an answer of GetExtendedTcpTable with these ports; what is no port is 0xee.
func table(t portTable, rows uint32, ports ...uint16) []byte {
	out := binary.LittleEndian.AppendUint32(nil, rows)
	for _, p := range ports {
		row := make([]byte, t.row)
		for i := range row {
			row[i] = 0xee
		}
		binary.BigEndian.PutUint16(row[t.port:], p)
		out = append(out, row...)
	}
	return out
}

func TestListeningPorts(t *testing.T) {
	for _, layout := range []portTable{tcp4Table(), tcp6Table()} {
		whole := table(layout, 2, 10250, 22)
		for _, c := range []struct {
			name  string
			table []byte
			want  []int
		}{
			{"two rows", whole, []int{10250, 22}},
			{"no bytes", nil, nil},
			{"no rows", table(layout, 0), nil},
			{"a row is cut short", whole[:len(whole)-1], []int{10250}},
			{"more rows announced than there are", table(layout, 1<<31, 445), []int{445}},
		} {
			if diff := cmp.Diff(c.want, layout.ports(c.table)); diff != "" {
				t.Errorf("%d bytes a row, %s: %s", layout.row, c.name, diff)
			}
		}
	}
	if diff := cmp.Diff([]int{22, 10250}, distinct([]int{10250, 22, 10250})); diff != "" {
		t.Error(diff)
	}
}

func TestDynamicRange(t *testing.T) {
	if r, ok := dynamicRange("TCP", 49152, 16384); !ok || r != (plan.PortRange{Protocol: "TCP", First: 49152, Count: 16384}) {
		t.Errorf("Windows' own range: %+v, %v", r, ok)
	}
	for _, r := range [][2]int{{0, 16384}, {49152, 0}, {49152, 16385}, {-1, 5}} {
		if _, ok := dynamicRange("TCP", r[0], r[1]); ok {
			t.Errorf("%v is no range", r)
		}
	}
}
