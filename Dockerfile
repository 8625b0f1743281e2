# The image of Millwright: a static binary and root certificates, nothing else. make image-context builds both:
#
#   make image-context && docker build --build-arg TARGETARCH=arm64 -t IMAGE .
#
# It needs no network, and works with buildah bud as well. make image packs the same files without a container engine.
FROM scratch
ARG TARGETOS=linux
ARG TARGETARCH=amd64
COPY bin/image/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY bin/image/${TARGETOS}_${TARGETARCH}/millwright /millwright
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/millwright"]
