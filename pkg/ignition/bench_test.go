package ignition

import "testing"

// BenchmarkParse6MB reads a config of 6 MB with 400 files, the size that made other readers take minutes.
func BenchmarkParse6MB(b *testing.B) {
	plainText := padded(b, 6<<20, 400)
	for name, input := range map[string][]byte{"JSON": plainText, "gzip": gz(b, plainText)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(plainText)))
			b.ReportAllocs()
			for b.Loop() {
				c, err := Parse(input)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := c.Worker(Served()...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
