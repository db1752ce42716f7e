# The operator's image: a static binary, the agent for Windows, and the packed payload beside it.
#
#   make payload && docker build -t windows-machine-operator:latest .
FROM golang:1.26 AS build
ARG VERSION=v0.1.0
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/windows-machine-operator . \
 && CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/wmcb.exe ./cmd/wmcb

FROM scratch
COPY --from=build /out/windows-machine-operator /windows-machine-operator
COPY --from=build /out/wmcb.exe /payload/wmcb.exe
# out/payload is what `make payload` builds from source and packs; `make payload DECLARE=file` adds programs from elsewhere.
COPY out/payload /payload
USER 65532:65532
ENTRYPOINT ["/windows-machine-operator"]
