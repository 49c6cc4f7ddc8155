# Reads its request as a script should, then breaks every other rule on purpose.
cat > /dev/null
echo "Segmentation fault (this is only a demonstration)"
echo "cannot open the database: no such file" >&2
exit 7
