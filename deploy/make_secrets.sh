#!/bin/sh
# Makes the secrets and the .env file docker-compose.yml needs. Asks nothing; keeps what is there.
#
#   deploy/make_secrets.sh [DIRECTORY]      default: deploy/secrets beside this script
#
# seal.key         the key with which the services sign claims and tickets
# operator.key     opens the dashboard
# redis.password   the adapter store's password for Redis
# redis.acl        Redis users: the store's, bound to its key prefix and commands; no default user
# grafana.password  for the user admin of the profile `metrics`
# .env             (one level up) the uid that owns the secrets; the containers run under it
set -eu
umask 077

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
secrets=${1:-$here/secrets}
mkdir -p "$secrets"

random_hex() {
    od -An -N "$1" -tx1 /dev/urandom | tr -d ' \n'
}

[ -s "$secrets/seal.key" ] || random_hex 32 >"$secrets/seal.key"
[ -s "$secrets/operator.key" ] || random_hex 32 >"$secrets/operator.key"
[ -s "$secrets/redis.password" ] || random_hex 32 >"$secrets/redis.password"
[ -s "$secrets/grafana.password" ] || random_hex 16 >"$secrets/grafana.password"

password_hash=$(sha256sum <"$secrets/redis.password" | cut -d ' ' -f 1)
sed "s/PASSWORD_SHA256/$password_hash/" "$here/redis.acl.template" >"$secrets/redis.acl"

# A file secret keeps its owner and mode inside the container, so the containers run as its owner;
# never as root.
files='seal.key operator.key redis.password redis.acl grafana.password'
uid=$(id -u)
gid=$(id -g)
if [ "$uid" -eq 0 ]; then
    uid=10001
    gid=10001
    (cd "$secrets" && chown "$uid:$gid" $files)
fi
(cd "$secrets" && chmod 0600 $files)
printf 'EDGELORA_UID=%s\nEDGELORA_GID=%s\n' "$uid" "$gid" >"$secrets/../.env"
echo "secrets are in $secrets"
echo "start with: docker compose --env-file $(CDPATH='' cd -- "$secrets/.." && pwd)/.env up --build"
